"""What did the program do? Runs it in a process of its own, under hooks that write an event log, and hands back a Trace.

`supervise` starts it and waits, `assemble` makes the Trace of what it left; inside the program `child` is the entry point, `hooks` patches, `recorder` writes, `debuglog` reads torch_xla's own record, and each
module of `watch/` watches one thing. Nothing here judges; the rules do.
"""
