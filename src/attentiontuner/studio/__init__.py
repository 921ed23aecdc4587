"""The annotation studio: a page where people play, and mark what they remembered.

`session.py` is the edit state, `desk.py` the sessions of one data set and their saving, `play.py` the episode being
played, `server.py` the web around them; `static/` is the page.
"""
