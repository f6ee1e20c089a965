"""The paper's estimators: pure functions on records of sorted arrays, one module per idea.

INFOCOM stands for Benkő, Malicskó, Veres: A Large-scale, Passive Analysis of End-to-End TCP
Performance over GPRS, INFOCOM 2004. The module `records` describes the input of the estimators.
"""
