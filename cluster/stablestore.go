package cluster

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// errNoSuchKey has the text by which raft knows a key that is not there.
var errNoSuchKey = errors.New("not found")

// checkedStable wraps the store of terms and votes with a checksum for every
// value, and shows its writes to the watchdog.
type checkedStable struct {
	raft.StableStore
	path    string
	watch   *watchdog
	damaged func(error)
}

// Set implements raft.StableStore.
func (s *checkedStable) Set(key, val []byte) error {
	defer s.watch.begin("writing the vote")()
	sealed := append(append(make([]byte, 0, len(val)+4), val...), 0, 0, 0, 0)
	binary.BigEndian.PutUint32(sealed[len(val):], valueSum(key, val))
	return s.StableStore.Set(key, sealed)
}

// Get implements raft.StableStore.
func (s *checkedStable) Get(key []byte) ([]byte, error) {
	sealed, err := s.StableStore.Get(key)
	if err != nil {
		return nil, err
	}
	n := len(sealed) - 4
	if n < 0 || binary.BigEndian.Uint32(sealed[n:]) != valueSum(key, sealed[:n]) {
		err := damagedError{s.path, "the value of " + string(key) + " does not have its checksum", nil}
		s.damaged(err)
		return nil, err
	}
	return sealed[:n], nil
}

// SetUint64 implements raft.StableStore.
func (s *checkedStable) SetUint64(key []byte, val uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, val))
}

// GetUint64 implements raft.StableStore.
func (s *checkedStable) GetUint64(key []byte) (uint64, error) {
	b, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, errNoSuchKey
	}
	return binary.BigEndian.Uint64(b), nil
}

// verify reads what raft keeps here.
func (s *checkedStable) verify() error {
	for _, key := range [...]string{"CurrentTerm", "LastVoteTerm", "LastVoteCand"} {
		if _, err := s.Get([]byte(key)); err != nil && err.Error() != errNoSuchKey.Error() {
			return err
		}
	}
	return nil
}

func valueSum(key, val []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, val)
}
