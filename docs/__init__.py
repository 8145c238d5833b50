"""Pages about the program, and the code of the lesson."""
