"""Training of any module on any task."""
