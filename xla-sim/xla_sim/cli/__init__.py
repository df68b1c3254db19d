"""The command line: one thin file a command. They read options and hand on; they decide nothing."""
