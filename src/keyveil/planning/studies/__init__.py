"""Studies of the planner at full size: are predictions right (``scenarios``), and is the first line the best?

Each keeps one JSON line for everything that it has measured, goes on where it was stopped, and writes a page.
"""
