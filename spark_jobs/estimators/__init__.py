"""The paper's estimators: pure functions on records of sorted arrays, one module an idea.

INFOCOM stands for Benkő, Malicskó, Veres: A Large-scale, Passive Analysis of End-to-End TCP
Performance over GPRS, INFOCOM 2004. `records` says what the estimators are given.
"""
