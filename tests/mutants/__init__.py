"""Mutation testing: which small changes of the pure rooms and of the Lua scripts no test notices (`make mutants`)."""
