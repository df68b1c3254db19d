"""What runs inside the observed program: hooks on torch and torch_xla that write an event log.

`child` is the entry point, `hooks` patches, `recorder` writes, `debuglog` reads torch_xla's own record, and `optimizers`,
`modules` and `ops` each watch one thing. Nothing here judges; the rules do, from the Trace that `xla_sim.build` makes.
"""
