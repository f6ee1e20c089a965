"""From a frame's first byte to its IP header, for each link type.

Numbers: the LINKTYPE_ registry of tcpdump.org, IEEE 802 Ethertypes, PPP protocol numbers (IANA).
Tags: IEEE 802.1Q, 9.3 to 9.7 (VLAN, and the I-TAG of provider backbone bridges, 802.1ah); VN-Tag:
Cisco's proposal for IEEE 802.1Qbh.
"""

from spark_jobs.compiled import inlined, inner

NULL, ETHERNET, PPP, FDDI, LOOP = 0, 1, 9, 10, 108
RAW, RAW_BSD, RAW_OPENBSD, IPV4_ONLY, IPV6_ONLY = 101, 12, 14, 228, 229
PPP_HDLC, PPPOE, PPP_PPPD = 50, 51, 166
LINUX_COOKED, LINUX_COOKED_2 = 113, 276
WIFI = (105, 119, 127, 163)
"""IEEE 802.11, plain, behind Prism, radiotap and AVS headers."""

# Where an IP header's place is expected, why there is none.
NOT_IP, TOO_SHORT, UNKNOWN_LINK_TYPE, WIFI_LINK_TYPE = -1, -2, -3, -4

ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
VLAN_TAGS = (0x8100, 0x88A8, 0x9100, 0x9200)
VN_TAG, I_TAG = 0x8926, 0x88E7
ETHERTYPE_MPLS, ETHERTYPE_MPLS_MULTICAST, ETHERTYPE_PPPOE_SESSION = 0x8847, 0x8848, 0x8864
LARGEST_802_3_LENGTH = 1500
PPP_IPV4, PPP_IPV6, PPP_MPLS, PPP_MPLS_MULTICAST = 0x21, 0x57, 0x281, 0x283


@inlined
def be16(buf, at):
    return int(buf[at]) << 8 | int(buf[at + 1])


@inlined
def _tag_bytes(ethertype):
    """How many bytes of a tag stand between its Ethertype and the next one: a VLAN's 2; a VN-Tag's
    4; an I-TAG's 4 and two addresses of the customer's; 0 where the Ethertype is no tag's."""
    if ethertype in VLAN_TAGS:
        return 2
    if ethertype == VN_TAG:
        return 4
    return 16 if ethertype == I_TAG else 0


@inner
def _after_tags(buf, at, end, ethertype):
    """(the first byte behind the Ethertype that is no tag's, that Ethertype); at: the first byte
    behind the given one. Tags may be stacked, of all kinds. Beyond `end` where the frame is cut."""
    size = _tag_bytes(ethertype)
    while size:
        at += size + 2
        if at > end:
            break
        ethertype = be16(buf, at - 2)
        size = _tag_bytes(ethertype)
    return at, ethertype


@inner
def _after_mpls(buf, at, end):
    """Labels up to the bottom of the stack (RFC 3032), then IP, or Ethernet in a pseudowire
    (RFC 4448, with its control word)."""
    while at + 4 <= end:
        bottom = buf[at + 2] & 1
        at += 4
        if bottom:
            if at >= end:
                return TOO_SHORT
            version = buf[at] >> 4
            if version in (4, 6):
                return at
            if version != 0:
                return NOT_IP
            at += 18
            if at > end:
                return TOO_SHORT
            at, ethertype = _after_tags(buf, at, end, be16(buf, at - 2))
            if at > end:
                return TOO_SHORT
            return at if ethertype in (ETHERTYPE_IPV4, ETHERTYPE_IPV6) else NOT_IP
    return TOO_SHORT


@inner
def _after_ppp(buf, at, end):
    """PPP (RFC 1661): address and control bytes and the protocol's first byte may be left out."""
    if at + 2 <= end and buf[at] == 0xFF and buf[at + 1] == 0x03:
        at += 2
    if at + 2 > end:
        return TOO_SHORT
    if buf[at] & 1:
        protocol = int(buf[at])
        at += 1
    else:
        protocol = be16(buf, at)
        at += 2
    if protocol in (PPP_IPV4, PPP_IPV6):
        return at
    if protocol in (PPP_MPLS, PPP_MPLS_MULTICAST):
        return _after_mpls(buf, at, end)
    return NOT_IP


@inner
def _after_llc(buf, at, end):
    """802.2 LLC with a SNAP header (RFC 1042)."""
    if at + 8 > end:
        return TOO_SHORT
    if buf[at] != 0xAA or buf[at + 1] != 0xAA or buf[at + 2] != 0x03:
        return NOT_IP
    ethertype = be16(buf, at + 6)
    if ethertype in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        return at + 8
    return NOT_IP


@inner
def _after_ethertype(buf, at, end, ethertype):
    """at: the first byte behind the Ethertype."""
    at, ethertype = _after_tags(buf, at, end, ethertype)
    if at > end:
        return TOO_SHORT
    if ethertype in (ETHERTYPE_IPV4, ETHERTYPE_IPV6):
        return at
    if ethertype in (ETHERTYPE_MPLS, ETHERTYPE_MPLS_MULTICAST):
        return _after_mpls(buf, at, end)
    if ethertype == ETHERTYPE_PPPOE_SESSION:
        return _after_ppp(buf, at + 6, end)
    if ethertype <= LARGEST_802_3_LENGTH:
        return _after_llc(buf, at, end)
    return NOT_IP


@inner
def _after_address_family(buf, at, end):
    """NULL and LOOP: a 4-byte address family in either byte order; 24, 28 and 30 are the BSDs'
    and 10 Linux's IPv6."""
    if at + 4 > end:
        return TOO_SHORT
    family = int(buf[at]) | int(buf[at + 3])
    if buf[at + 1] == 0 and buf[at + 2] == 0 and family in (2, 10, 24, 28, 30):
        return at + 4
    return NOT_IP


@inner
def ip_header(buf, at, end, link_type):
    """Place of the IP header of the frame buf[at:end], or NOT_IP, TOO_SHORT, UNKNOWN_LINK_TYPE or
    WIFI_LINK_TYPE. Whether it is IPv4 or IPv6 is for its version field to say."""
    if link_type in (RAW, RAW_BSD, RAW_OPENBSD, IPV4_ONLY, IPV6_ONLY):
        return at
    ethertype_at, behind = 0, 0
    if link_type == ETHERNET:
        ethertype_at, behind = at + 12, at + 14
    elif link_type == LINUX_COOKED:
        ethertype_at, behind = at + 14, at + 16
    elif link_type == LINUX_COOKED_2:
        ethertype_at, behind = at, at + 20
    if behind:
        if behind > end:
            return TOO_SHORT
        return _after_ethertype(buf, behind, end, be16(buf, ethertype_at))
    if link_type in (NULL, LOOP):
        return _after_address_family(buf, at, end)
    if link_type in (PPP, PPP_HDLC):
        return _after_ppp(buf, at, end)
    if link_type == PPP_PPPD:
        return _after_ppp(buf, at + 2, end)
    if link_type == PPPOE:
        return _after_ppp(buf, at + 6, end)
    if link_type == FDDI:
        return _after_llc(buf, at + 13, end)
    return WIFI_LINK_TYPE if link_type in WIFI else UNKNOWN_LINK_TYPE
