#!/usr/bin/env python3
"""Opens the device and says what its port is, again whenever that is otherwise: "mtu 1024 width 2 speed 4"."""

import ctypes
import time

verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
verbs.ibv_query_port.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_char_p]
context = verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0])
before = ""
while True:
    port = ctypes.create_string_buffer(256)  # ibv_port_attr
    if verbs.ibv_query_port(context, 1, port) != 0:
        raise SystemExit("ibv_query_port")
    now = f"mtu {128 << port.raw[8]} width {port.raw[43]} speed {port.raw[44]}"
    if now != before:
        print(now, flush=True)
    before = now
    time.sleep(0.01)
