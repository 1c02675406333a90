"""The page in a browser: Debian's Chromium shows it with data of a fixture server, or is told why it is missing."""
