"""Are users served worse at peak than off-peak, and how does it change by day and hour?"""
