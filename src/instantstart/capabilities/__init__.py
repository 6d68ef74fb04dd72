"""Floor 3: the slices. Each says what may be asked, what must hold, what is done, what can be read, and its door."""
