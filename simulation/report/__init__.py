"""Policies side by side: one table, one page with pictures, one file of figures."""
