"""What happened at what time of a day, in five-minute slots?"""
