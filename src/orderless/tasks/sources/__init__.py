"""Where data come from: publishers' files, scikit-learn's digits, and generators that need no files."""
