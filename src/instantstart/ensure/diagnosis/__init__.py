"""Why something is not as it should be: evidence gathered in one go, and pure rules that rank causes. Nothing is changed here."""
