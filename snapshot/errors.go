package snapshot

import "fmt"

// DamagedError says that the bytes are not a whole, unaltered snapshot. Nothing
// of such a snapshot can be used.
type DamagedError struct {
	Offset int64  // where the block that shows it begins
	What   string // for people
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the snapshot is damaged at byte %d: %s; use another snapshot", e.Offset, e.What)
}

// VersionError says that the snapshot is whole as far as can be told, but was
// written by another version.
type VersionError struct{ Version uint32 }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the snapshot has format version %d and this version reads 1 to %d: run the version that wrote it", e.Version, Version)
}
