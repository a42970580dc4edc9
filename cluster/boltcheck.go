package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// checkBolt walks through a bolt file before it is opened for use, and shows
// check every value where check is given. Bolt maps the file and scans it in
// goroutines of its own, where a fault or a panic over a damaged page ends the
// process without a word that helps.
func checkBolt(path string, check func(key, value []byte) error) error {
	return sheltered(path, func() error { return walkBolt(path, check) })
}

func walkBolt(path string, check func(key, value []byte) error) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() == 0 {
		return damagedError{path, "it is empty", nil}
	}
	if err != nil {
		return err
	}
	if err := checkBoltSize(path, info.Size()); err != nil {
		return err
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return asDamage(path, "it cannot be opened", err)
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				if check == nil {
					return nil
				}
				return check(k, v)
			})
		})
	})
}

const (
	boltMagic      = 0xED0CDAED
	boltPageHeader = 16
	boltMetaBytes  = 64
)

// checkBoltSize holds the size of the file against the number of pages that its
// newest meta page counts.
func checkBoltSize(path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	need, newest := int64(-1), uint64(0)
	for _, at := range [...]int64{0, int64(os.Getpagesize())} {
		var m [boltMetaBytes]byte
		if _, err := f.ReadAt(m[:], at+boltPageHeader); err != nil {
			continue
		}
		sum := fnv.New64a()
		sum.Write(m[:56])
		txid := binary.LittleEndian.Uint64(m[48:])
		if binary.LittleEndian.Uint32(m[:]) != boltMagic || binary.LittleEndian.Uint64(m[56:]) != sum.Sum64() || txid < newest {
			continue
		}
		newest = txid
		need = int64(binary.LittleEndian.Uint64(m[40:])) * int64(binary.LittleEndian.Uint32(m[8:]))
	}
	switch {
	case need < 0:
		return damagedError{path, "it does not begin as it should", nil}
	case size < need:
		return damagedError{path, fmt.Sprintf("it has %d bytes, but should have %d", size, need), nil}
	}
	return nil
}
