package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
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
	fault   *diskFault
	damaged func(error)
}

// Set implements raft.StableStore. It returns no error: raft would panic.
func (s *checkedStable) Set(key, val []byte) error {
	if err := s.write(key, val); err != nil {
		s.fault.hold(diskError{s.path, true, err})
	}
	return nil
}

func (s *checkedStable) write(key, val []byte) error {
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
	val, err := unseal(s.path, key, sealed)
	if err != nil {
		s.damaged(err)
	}
	return val, err
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

// checkVote checks one value as it lies in the file. A key that raft does not
// know is one of raft's, damaged.
func checkVote(path string) func(key, sealed []byte) error {
	return func(key, sealed []byte) error {
		switch string(key) {
		case "CurrentTerm", "LastVoteTerm", "LastVoteCand":
		default:
			return damagedError{path, fmt.Sprintf("it holds %q, which does not belong there", key), nil}
		}
		_, err := unseal(path, key, sealed)
		return err
	}
}

func unseal(path string, key, sealed []byte) ([]byte, error) {
	n := len(sealed) - 4
	if n < 0 || binary.BigEndian.Uint32(sealed[n:]) != valueSum(key, sealed[:n]) {
		return nil, damagedError{path, "the value of " + string(key) + " does not have its checksum", nil}
	}
	return sealed[:n], nil
}

func valueSum(key, val []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, val)
}
