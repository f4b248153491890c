"""HTML pages that need no network and no other file: elements, charts and the frame around them, whatever a page is about."""
