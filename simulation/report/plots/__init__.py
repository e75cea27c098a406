"""Pictures of a comparison, drawn by matplotlib as SVG: light and dark, and readable without colours."""
