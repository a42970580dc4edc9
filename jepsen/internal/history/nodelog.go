package history

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// Digest is a digest of one node's state after an entry of its log, as the node
// told it while it ran.
type Digest struct {
	Node  string `json:"node"`
	At    int64  `json:"at"` // when it was asked for
	Index uint64 `json:"index"`
	Hash  string `json:"hash"` // 16 hex digits
}

// NodeLog is what a node left behind: its replicated log, as the server's own
// binary reads and replays it.
type NodeLog struct {
	Node        string
	First, Last uint64     // entries of the log; 0: none
	Entries     []LogEntry // by index; damaged ones are left out
	Damages     []string
}

// LogEntry is one entry of a log.
type LogEntry struct {
	Index    uint64       `json:"index"`
	Term     uint64       `json:"term"`
	Kind     string       `json:"kind"`
	Hash     string       `json:"hash"` // of the state after it; "" where it was not replayed
	Commands []LogCommand `json:"commands"`

	// Content stands for all that every node's log has to agree on.
	Content string `json:"-"`
}

// LogCommand is one command of an entry.
type LogCommand struct {
	Op            string     `json:"op"`
	Queue         string     `json:"queue"`
	PayloadDigest string     `json:"payloadDigest"`
	Result        *LogResult `json:"result"` // nil: it was not replayed
}

// LogResult is what became of a command.
type LogResult struct {
	Outcome string `json:"outcome"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
}

// LogAppended is the outcome of a command that appended a message.
const LogAppended = "appended"

// logKindDamaged is an entry that could not be read.
const logKindDamaged = "damaged"

// PayloadDigest is what stands for a payload in a log.
func PayloadDigest(payload string) string {
	sum := sha256.Sum256([]byte(payload))
	return hex.EncodeToString(sum[:8])
}

// ReadNodeLog reads what `spoolraft debug log --replay --json` prints.
func ReadNodeLog(node string, in io.Reader) (*NodeLog, error) {
	l := &NodeLog{Node: node}
	r := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it ends after line %d, without a summary", n-1)
		}
		if err != nil {
			return nil, err
		}
		var line struct {
			LogEntry
			Summary *struct {
				First, Last uint64
				Damages     []string
			} `json:"summary"`
		}
		if err := json.Unmarshal(text, &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if s := line.Summary; s != nil {
			l.First, l.Last, l.Damages = s.First, s.Last, s.Damages
			return l, nil
		}
		if line.Kind == logKindDamaged {
			continue
		}
		if line.Content, err = contentOf(text); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		l.Entries = append(l.Entries, line.LogEntry)
	}
}

// contentOf leaves out what a replay adds, and when a node took the entry.
func contentOf(text []byte) (string, error) {
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", err
	}
	delete(fields, "hash")
	delete(fields, "appendedAt")
	if commands, ok := fields["commands"].([]any); ok {
		for _, c := range commands {
			if c, ok := c.(map[string]any); ok {
				delete(c, "result")
			}
		}
	}
	b, err := json.Marshal(fields)
	return PayloadDigest(string(b)), err
}

// LogFile is the file with the log of a node, below the directory of the node.
const LogFile = "raftlog.jsonl"

// LoadNodeLogs reads the logs below the directories of the nodes. There are none
// where the deployment cannot tell them.
func LoadNodeLogs(nodesDir string) ([]*NodeLog, error) {
	paths, err := filepath.Glob(filepath.Join(nodesDir, "*", LogFile))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var logs []*NodeLog
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		l, err := ReadNodeLog(filepath.Base(filepath.Dir(path)), f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		logs = append(logs, l)
	}
	return logs, nil
}
