package proxy

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// ByOwner identifies a connection by the process that owns its other end.
// Names returns the processes to look among.
func ByOwner(names func() map[int]string) Identify {
	return func(remote, local *net.TCPAddr) string {
		inode, err := socketInode("/proc/net/tcp", remote, local)
		if err != nil {
			return ""
		}
		for pid, name := range names() {
			if ownsSocket(pid, inode) {
				return name
			}
		}
		return ""
	}
}

// As identifies every connection as the same party's.
func As(party string) Identify {
	return func(_, _ *net.TCPAddr) string { return party }
}

// socketInode finds the socket whose own address is the first and whose peer
// is the second, in the kernel's table of IPv4 connections.
func socketInode(table string, own, peer *net.TCPAddr) (string, error) {
	f, err := os.Open(table)
	if err != nil {
		return "", err
	}
	defer f.Close()
	wantOwn, wantPeer := tableAddress(own), tableAddress(peer)
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) > 9 && fields[1] == wantOwn && fields[2] == wantPeer {
			return fields[9], nil
		}
	}
	return "", fmt.Errorf("no socket %s in %s", own, table)
}

// tableAddress writes an address as the kernel's table does: the four bytes
// as a number of this machine's order, in hexadecimal.
func tableAddress(a *net.TCPAddr) string {
	ip := a.IP.To4()
	if ip == nil {
		return ""
	}
	var raw [4]byte
	binary.BigEndian.PutUint32(raw[:], binary.NativeEndian.Uint32(ip))
	return strings.ToUpper(hex.EncodeToString(raw[:])) + fmt.Sprintf(":%04X", a.Port)
}

// ownsSocket reports whether the process has the socket open.
func ownsSocket(pid int, inode string) bool {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
