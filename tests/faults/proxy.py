"""A proxy on the loopback between the processes of one run, which cuts their connections."""

import random
import re
import selectors
import socket
import struct
import threading

ROOM = 1 << 20  # bytes that wait for a side which reads slowly


class Proxy(threading.Thread):
    """Processes that meet at `port` reach process 0 at `coordinator`. In what they say to each other there it changes their
    addresses into its own, so that all their connections come through here. Each is ended after a random number of bytes, in
    the middle of whatever they are, until `cuts` of them were: half of them by a reset, which also loses what the system has
    not delivered yet."""

    def __init__(self, coordinator, cuts, seed=0, shortest=500, longest=2_000_000):
        super().__init__(daemon=True)
        self.cuts, self.cut = cuts, 0
        self.chance, self.shortest, self.longest = random.Random(seed), shortest, longest
        self.selector = selectors.DefaultSelector()
        self.doors = {}  # port behind -> port here
        self.connections = set()
        self.blocked = False  # nothing gets through, and connections look alive
        self.ends = False
        self.port = self.door(coordinator, meets=True)
        self.start()

    def door(self, to, meets=False):
        if to not in self.doors:
            listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
            listening.setblocking(False)
            self.doors[to] = listening.getsockname()[1]
            self.selector.register(listening, selectors.EVENT_READ, lambda: self.accept(listening, to, meets))
        return self.doors[to]

    def accept(self, listening, to, meets):
        come, _ = listening.accept()
        try:
            other = socket.create_connection(("127.0.0.1", to))
        except OSError:
            come.close()
            return
        self.connections.add(Connection(self, come, other, meets))

    def with_doors(self, said):
        def here(match):
            port = int(match[1])
            return b"tcp://127.0.0.1:%d" % (port if port in self.doors.values() else self.door(port))
        return re.sub(rb"tcp://[^,\"]*127\.0\.0\.1\]?:(\d+)", here, said)

    def bytes_to_carry(self):
        return int(self.shortest * (self.longest / self.shortest) ** self.chance.random())

    def run(self):
        while not self.ends:
            for key, _ in self.selector.select(timeout=0.05):
                if self.blocked:
                    continue
                key.data()
            if self.blocked:
                threading.Event().wait(0.05)

    def end(self):
        self.ends = True
        self.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()


class Connection:
    def __init__(self, proxy, *sides_and_kind):
        self.proxy, (one, other, self.meets) = proxy, sides_and_kind
        self.sides = {one: other, other: one}
        self.unsent = {one: b"", other: b""}  # to that side
        self.left = proxy.bytes_to_carry()
        for side in self.sides:
            side.setblocking(False)
            proxy.selector.register(side, selectors.EVENT_READ, lambda side=side: self.turn(side))

    def turn(self, side):
        if self not in self.proxy.connections:  # ended in this round
            return
        try:
            if len(self.unsent[self.sides[side]]) < ROOM:
                self.hear(side)
            for each in self.sides:
                if self in self.proxy.connections:
                    self.send(each)
        except OSError:
            self.end(reset=False)

    def hear(self, side):
        try:
            said = side.recv(65536)
        except BlockingIOError:
            return
        if not said:
            raise ConnectionError
        if self.meets:
            said = self.proxy.with_doors(said)
        if self.proxy.cut < self.proxy.cuts:
            self.left -= len(said)
            said = said[:max(0, len(said) + min(self.left, 0))]
        self.unsent[self.sides[side]] += said

    def send(self, side):
        if self.unsent[side]:
            try:
                self.unsent[side] = self.unsent[side][side.send(self.unsent[side]):]
            except BlockingIOError:
                pass
        if self.left <= 0 and not any(self.unsent.values()) and self.proxy.cut < self.proxy.cuts:
            self.proxy.cut += 1
            self.end(reset=self.proxy.chance.random() < 0.5)
            return
        reads = len(self.unsent[self.sides[side]]) < ROOM
        events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if self.unsent[side] else 0)
        self.proxy.selector.modify(side, events or selectors.EVENT_READ, lambda: self.turn(side))

    def end(self, reset):
        self.proxy.connections.discard(self)
        for side in self.sides:
            self.proxy.selector.unregister(side)
            if reset:
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            side.close()
