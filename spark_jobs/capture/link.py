"""Position of the IP header in a frame, for each link type.

Link types: the LINKTYPE_ registry of tcpdump.org. Other numbers: IEEE 802 Ethertypes, PPP protocol
    numbers (IANA). Tags: IEEE 802.1Q, 9.3 to 9.7 (VLAN, and the I-TAG of provider backbone bridges,
    802.1ah); VN-Tag: Cisco's proposal for IEEE 802.1Qbh.
"""

import numpy as np

from spark_jobs.compiled import inlined, inner

NULL, ETHERNET, PPP, FDDI, LOOP = 0, 1, 9, 10, 108
RAW, RAW_BSD, RAW_OPENBSD, IPV4_ONLY, IPV6_ONLY = 101, 12, 14, 228, 229
PPP_HDLC, PPPOE, PPP_PPPD = 50, 51, 166
LINUX_COOKED, LINUX_COOKED_2 = 113, 276
WIFI = (105, 119, 127, 163)
"""Link types of IEEE 802.11: plain, and with Prism, radiotap and AVS headers."""

# Returned in place of a position: reasons why there is no IP header.
NOT_IP, TOO_SHORT, UNKNOWN_LINK_TYPE, WIFI_LINK_TYPE = -1, -2, -3, -4

ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
VLAN_TAGS = (0x8100, 0x88A8, 0x9100, 0x9200)
VN_TAG, I_TAG = 0x8926, 0x88E7
ETHERTYPE_MPLS, ETHERTYPE_MPLS_MULTICAST, ETHERTYPE_PPPOE_SESSION = 0x8847, 0x8848, 0x8864
MAX_802_3_LENGTH = 1500
PPP_IPV4, PPP_IPV6, PPP_MPLS, PPP_MPLS_MULTICAST = 0x21, 0x57, 0x281, 0x283


@inlined
def be16(buf, pos):
    """Return the big-endian 16-bit number at `pos`."""
    return int(buf[pos]) << 8 | int(buf[pos + 1])


@inlined
def _tag_bytes(ethertype):
    """Return the number of bytes between a tag's Ethertype and the next Ethertype.

    A VLAN tag has 2, a VN-Tag 4, an I-TAG 16: 4 and two addresses of the customer. Returns 0 if the
    Ethertype is not that of a tag.
    """
    if ethertype in VLAN_TAGS:
        return 2
    if ethertype == VN_TAG:
        return 4
    return 16 if ethertype == I_TAG else 0


@inner
def _after_tags(buf, pos, end, ethertype):
    """Skip tags; return the position after the first Ethertype that is no tag, and this Ethertype.

    pos: position after the given Ethertype. Tags of all kinds may be stacked. The position is
        beyond `end` if the frame is cut.
    """
    size = _tag_bytes(ethertype)
    while size:
        pos += size + 2
        if pos > end:
            break
        ethertype = be16(buf, pos - 2)
        size = _tag_bytes(ethertype)
    return pos, ethertype


@inner
def _after_mpls(buf, pos, end):
    """Skip MPLS labels up to the bottom of the stack (RFC 3032).

    IP follows, or Ethernet in a pseudowire (RFC 4448, with its control word).
    """
    while pos + 4 <= end:
        bottom = buf[pos + 2] & 1
        pos += 4
        if bottom:
            if pos >= end:
                return TOO_SHORT
            version = buf[pos] >> 4
            if version in (4, 6):
                return pos
            if version != 0:
                return NOT_IP
            pos += 18
            if pos > end:
                return TOO_SHORT
            pos, ethertype = _after_tags(buf, pos, end, be16(buf, pos - 2))
            if pos > end:
                return TOO_SHORT
            return pos if ethertype in (ETHERTYPE_IPV4, ETHERTYPE_IPV6) else NOT_IP
    return TOO_SHORT


@inner
def _after_ppp(buf, pos, end):
    """Skip a PPP header (RFC 1661).

    The address and control bytes and the first byte of the protocol may be missing.
    """
    if pos + 2 <= end and buf[pos] == 0xFF and buf[pos + 1] == 0x03:
        pos += 2
    if pos + 2 > end:
        return TOO_SHORT
    if buf[pos] & 1:
        protocol = int(buf[pos])
        pos += 1
    else:
        protocol = be16(buf, pos)
        pos += 2
    if protocol in (PPP_IPV4, PPP_IPV6):
        return pos
    if protocol in (PPP_MPLS, PPP_MPLS_MULTICAST):
        return _after_mpls(buf, pos, end)
    return NOT_IP


@inner
def _after_llc(buf, pos, end):
    """Skip an 802.2 LLC header with a SNAP header (RFC 1042)."""
    if pos + 8 > end:
        return TOO_SHORT
    if buf[pos] != 0xAA or buf[pos + 1] != 0xAA or buf[pos + 2] != 0x03:
        return NOT_IP
    ethertype = be16(buf, pos + 6)
    if ethertype in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        return pos + 8
    return NOT_IP


@inner
def _after_ethertype(buf, pos, end, ethertype):
    """Return the position of the IP header after an Ethertype.

    pos: position after the Ethertype.
    """
    pos, ethertype = _after_tags(buf, pos, end, ethertype)
    if pos > end:
        return TOO_SHORT
    if ethertype in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        return pos
    if ethertype in (ETHERTYPE_MPLS, ETHERTYPE_MPLS_MULTICAST):
        return _after_mpls(buf, pos, end)
    if ethertype == ETHERTYPE_PPPOE_SESSION:
        return _after_ppp(buf, pos + 6, end)
    if ethertype <= MAX_802_3_LENGTH:
        return _after_llc(buf, pos, end)
    return NOT_IP


@inner
def _after_address_family(buf, pos, end):
    """Skip the header of NULL and LOOP: an address family of 4 bytes in either byte order.

    24, 28 and 30 are IPv6 of the BSDs, 10 is Linux's.
    """
    if pos + 4 > end:
        return TOO_SHORT
    family = int(buf[pos]) | int(buf[pos + 3])
    if buf[pos + 1] == 0 and buf[pos + 2] == 0 and family in (2, 10, 24, 28, 30):
        return pos + 4
    return NOT_IP


@inner
def _ethertype_at(pos, link_type):
    """Return the positions of a frame's first Ethertype and of what it describes; -1: none."""
    if link_type == ETHERNET:
        return pos + 12, pos + 14
    if link_type == LINUX_COOKED:
        return pos + 14, pos + 16
    if link_type == LINUX_COOKED_2:
        return pos, pos + 20
    return -1, -1


@inner
def vlan_of(buf, pos, end, link_type):
    """Return the VLAN of the frame buf[pos:end], uint64: its VLAN identifier; 0 if it has none.

    Of two tags or more, the last two count: 4096 times the outer identifier plus the inner one.
    Those before an I-TAG are the provider's own and do not count.
    """
    vlan = np.uint64(0)
    ethertype_pos, pos = _ethertype_at(pos, link_type)
    if ethertype_pos < 0 or pos > end:
        return vlan
    ethertype = be16(buf, ethertype_pos)
    size = _tag_bytes(ethertype)
    while size and pos + size + 2 <= end:
        if ethertype in VLAN_TAGS:
            identifier = np.uint64(be16(buf, pos) & 0xFFF)
            vlan = (vlan << np.uint64(12) | identifier) & np.uint64(0xFFFFFF)
        elif ethertype == I_TAG:
            vlan = np.uint64(0)
        pos += size + 2
        ethertype = be16(buf, pos - 2)
        size = _tag_bytes(ethertype)
    return vlan


@inner
def ip_header(buf, pos, end, link_type):
    """Return the position of the IP header in the frame buf[pos:end].

    Returns NOT_IP, TOO_SHORT, UNKNOWN_LINK_TYPE or WIFI_LINK_TYPE if there is none. The version
    field of the header distinguishes IPv4 and IPv6.
    """
    if link_type in (RAW, RAW_BSD, RAW_OPENBSD, IPV4_ONLY, IPV6_ONLY):
        return pos
    ethertype_pos, payload_pos = _ethertype_at(pos, link_type)
    if ethertype_pos >= 0:
        if payload_pos > end:
            return TOO_SHORT
        return _after_ethertype(buf, payload_pos, end, be16(buf, ethertype_pos))
    if link_type in (NULL, LOOP):
        return _after_address_family(buf, pos, end)
    if link_type in (PPP, PPP_HDLC):
        return _after_ppp(buf, pos, end)
    if link_type == PPP_PPPD:
        return _after_ppp(buf, pos + 2, end)
    if link_type == PPPOE:
        return _after_ppp(buf, pos + 6, end)
    if link_type == FDDI:
        return _after_llc(buf, pos + 13, end)
    return WIFI_LINK_TYPE if link_type in WIFI else UNKNOWN_LINK_TYPE
