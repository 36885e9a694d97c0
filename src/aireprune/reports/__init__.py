"""One HTML file that shows what pruning did, or would do: everything is in it, and nothing is fetched."""
