"""<< cookiecutter.__description_docstring >>"""
