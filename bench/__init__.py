"""Measurements of Muster: each module one idea, each result a file, and a page that shows them."""
