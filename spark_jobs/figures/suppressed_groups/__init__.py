"""How much is left out to protect single users?"""
