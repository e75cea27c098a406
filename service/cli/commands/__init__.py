"""One module for each command; a module is imported when its command is used."""
