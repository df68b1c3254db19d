"""Where does it run? environment.yml, what this machine has and can reach, and the environments that are made of them.

Imported by nox itself, so nothing here needs more than the standard library, PyYAML and nox, and no other room.
"""
