"""How do QUIC's connections compare with TCP's? Shares, set-ups and RTTs (RFC 9000, RFC 9312)."""
