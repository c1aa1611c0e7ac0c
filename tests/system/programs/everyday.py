"""Which program tests every ./check runs: what differs from port to port, and one of each kind. The others are for ./check --full.

Everything runs but what LEFT_OUT names; of pairs of programs over a port that is not the default, which have the same engine and the
same programs, only those that ON_OTHER_PORTS names.
"""

import re

# One test of each transport and measurement, events, addresses of each kind, many queue pairs, loss, death.
ON_OTHER_PORTS = {
    "card": {"ibv_rc_pingpong", "ibv_rc_pingpong_events", "ibv_rc_pingpong_vlan", "ib_write_bw", "ib_write_bw_qp16", "ib_read_lat",
             "ib_send_bw_ud", "ib_atomic_bw", "cm_rping", "ibv_rc_pingpong_hugepages", "ib_write_bw_lossy",
             "both_ends_taken", "end_free_again"},
    "card_server": {"ibv_ud_pingpong", "ib_write_bw"},
    "card_tap": {"ibv_rc_pingpong"},
    "veth": {"ibv_rc_pingpong", "ibv_rc_pingpong_events", "ibv_ud_pingpong", "ibv_rc_pingpong_vlan_ipv6", "ib_read_bw", "ib_send_bw_ud",
             "ib_atomic_lat", "ib_write_bw_lossy", "ib_write_bw_peer_killed", "cm_rping", "cm_ib_write_lat_cm", "ibv_devinfo"},
    "tap": {"ib_write_bw"},
    "xdp": {"ib_write_bw", "ibv_rc_pingpong"},
    "uplink": {"ibv_rc_pingpong", "ibv_rc_pingpong_events"},
    "uplink_half": {"ib_write_bw", "ib_read_bw"},
    "uplink_tap_peer": {"ibv_rc_pingpong"},
    "uplink_record": {"ib_write_bw"},
}

# More variants of what another row already shows, and those that take longest.
LEFT_OUT = [re.compile(pattern) for pattern in (
    r"ibv_(uc|ud|srq)_pingpong_gid[01]", r"ib_(read|send|atomic)_(bw|lat)_gid[01]", r"ib_write_lat_gid1",
    r"ibv_(uc|srq)_pingpong_mtu\d+", r"ib_(read|atomic)_bw_mtu\d+", r"ib_(read|atomic)_bw_peer_killed",
    r"ib_(read|write|atomic)_bw_(old_post_send|post_list)", r"ib_(read|atomic)_bw_qp16", r"ib_(read|send)_bw_duplicated_segment",
    r"ib_write_bw_(reordered_segment|vlan|duration|ipv6)", r"ib_send_lat_(vlan|inline200)", r"ib_send_bw_all_sizes_short",
    r"ibv_rc_pingpong_(on_demand_implicit|on_demand_prefetched|timestamps_events|vlan|new_send_events)",
    r"cm_rstream_(verify|blocking|nonblocking|poll)", r"cm_riostream", r"ucx_rc_am_lat", r"cm_ib_read_bw_cm",
    r"ib_atomic_(bw|lat)_fetch_and_add", r"ibv_ud_pingpong_vlan", r"ib_send_bw_srq",
    r"ibv_(rc|uc|srq)_pingpong_validate",
    r"uplink_(quotas|local_pair)", r"faults_rate", r"cm_multicast", r"ib_write_bw_all_sizes_short", r"ib_send_bw_peer_killed")]


def suite_of(name, suite, wire):
    """The suite of a test: the one that it names itself, or "long" when every check does without it."""
    if any(pattern.fullmatch(name) for pattern in LEFT_OUT):
        return "long"
    if suite == "long" or name.startswith("uplink_"):
        return suite
    if wire in ON_OTHER_PORTS:
        plain = name
        for part in sorted(ON_OTHER_PORTS, key=len, reverse=True):
            plain = plain.replace(f"_{part}", "")
        return suite if plain in ON_OTHER_PORTS[wire] else "long"
    return suite
