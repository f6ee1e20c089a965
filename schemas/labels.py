"""Labels of users: what an operator groups by, besides network and hour."""

from schemas.table import Column

RATS = {
    1: "UTRAN", 2: "GERAN", 3: "WLAN", 4: "GAN", 5: "HSPA Evolution", 6: "EUTRAN", 7: "virtual",
    8: "NB-IoT", 9: "LTE-M", 10: "NR", 51: "NR", 52: "NR unlicensed", 53: "WLAN", 54: "TNGF",
    55: "wireline", 56: "wireline cable", 57: "wireline BBF", 101: "WiMAX", 102: "eHRPD",
    103: "HRPD", 104: "1xRTT", 105: "UMB",
}  # fmt: skip
"""Radio access technologies by 3GPP-RAT-Type (TS 29.061, 16.4.7.2; TS 29.274, 8.17)."""

LABELS = (
    Column(
        "apn",
        "string",
        "access point name (APN) or data network name, without the operator's suffix: "
        "Called-Station-Id",
        source="TS 29.061, 16.4.7; TS 23.003, 9.1",
    ),
    Column(
        "rat",
        "string",
        "radio access technology: " + ", ".join(dict.fromkeys(RATS.values())),
        source="TS 29.061, 16.4.7.2 (21)",
    ),
    Column(
        "area",
        "string",
        "where the user is, as hexadecimal fields: the kind (LAI, RAI, TAI; with area = cell in "
        "the networks file also CGI, SAI, ECGI, NCGI), the network's code, and the codes of the "
        "area and the cell",
        source="TS 29.061, 16.4.7.2 (22); TS 23.003, 4 and 19.4",
    ),
    Column(
        "device",
        "string",
        "type allocation code of the device: the first eight digits of its IMEI",
        source="TS 29.061, 16.4.7.2 (20); TS 23.003, 6.2",
    ),
    Column(
        "home",
        "string",
        "the subscriber's own network: country code and network code",
        source="TS 29.061, 16.4.7.2 (8)",
    ),
    Column(
        "visited",
        "string",
        "the network whose radio the user is in: country code and network code",
        source="TS 29.061, 16.4.7.2 (18)",
    ),
    Column(
        "qci",
        "int32",
        "QoS class: QCI or 5QI",
        source="TS 29.061, 16.4.7.2 (5); TS 23.203, 6.1.7; TS 29.561, 11",
    ),
)
"""Columns of the labels that RADIUS gives; null if it does not, or not in a form that is known."""
LABEL_NAMES = [column.name for column in LABELS]
