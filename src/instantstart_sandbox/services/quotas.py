def install(world): pass
