"""How sure are quantiles and means, as users differ? For Figs. 3, 4, 7, 9, 13 and users' waits."""
