"""Tables and figures as data: recipes, runs, results, rendering."""
