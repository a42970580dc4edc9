package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

func sendCommand() *cobra.Command {
	var (
		r        remote
		s        api.Send
		file     string
		delay    seconds
		retryFor = seconds(10 * time.Second)
	)
	c := &cobra.Command{
		Use:     "send QUEUE [PAYLOAD]",
		Short:   "Send a message",
		GroupID: groupMessages,
		Long: `Send a message. The payload is the argument, a file, or standard input.

With a key, the message is stored once, however often it is sent within the
queue's window. An attempt that ends without a clear answer is repeated with the
same key for --retry-for, which must be shorter than the window. Without a key,
nothing is ever sent twice: an unknown outcome ends the command with code 5.

` + exitCodesHelp,
		Example: `  spoolraft send jobs 'hello'
  spoolraft send jobs --file order.json --dedup-key order-1
  date | spoolraft send jobs --delay 15m`,
		Args: cobra.RangeArgs(1, 2),
	}
	f := c.Flags()
	f.StringVar(&file, "file", "", "send the content of this file; - is standard input")
	f.Var(&delay, "delay", "keep the message invisible for so long")
	f.StringVar(&s.DedupKey, "dedup-key", "", "key under which the message is stored once")
	f.StringVar(&s.DedupHash, "dedup-hash", "", "the same, as the first 16 bytes of the key's SHA-256 in hex")
	f.BoolVar(&s.Handle, "handle", false, "print a handle, to inspect or cancel the message")
	f.Var(&retryFor, "retry-for", "how long to repeat a keyed send without a clear answer; 0: not at all")
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		if err := checkKey(c, s); err != nil {
			return err
		}
		payload, err := readPayload(c.InOrStdin(), args[1:], file)
		if err != nil {
			return err
		}
		s.Queue, s.Payload, s.Delay = args[0], payload, time.Duration(delay)
		sent, err := send(c, client, s, time.Duration(retryFor))
		if err != nil {
			return err
		}
		return r.printSent(c, sent)
	})
}

func send(c *cobra.Command, client *api.Client, s api.Send, retryFor time.Duration) (api.Sent, error) {
	if !s.Keyed() || retryFor == 0 {
		sent, err := client.Send(c.Context(), s)
		return sent, adviseSend(err, s.Keyed())
	}
	sent, err := client.SendRetrying(c.Context(), s, retryFor, func(e *api.Error) {
		fmt.Fprintf(c.ErrOrStderr(), "spoolraft: sending again with the same key: %s\n", oneLine(e))
	})
	return sent, adviseSend(err, true)
}

// adviseSend adds to an error of unknown outcome what to do about it.
func adviseSend(err error, keyed bool) error {
	if keyed {
		return advise(err, "The message may be stored. Send it again with the same key to be sure of it.")
	}
	return advise(err, "The message may be stored. Sending it again may store it twice; with a --dedup-key it would not.")
}

func (r *remote) printSent(c *cobra.Command, sent api.Sent) error {
	if r.json {
		return printJSON(c.OutOrStdout(), struct {
			ID        string `json:"id"`
			Duplicate bool   `json:"duplicate"`
			Handle    string `json:"handle,omitempty"`
			Attempts  int    `json:"attempts"`
		}{sent.ID, sent.Duplicate, sent.Handle, sent.Attempts})
	}
	what := "sent"
	if sent.Duplicate {
		what = "already there"
	}
	rows := [][]string{{sent.ID, what}}
	if sent.Handle != "" {
		rows = append(rows, []string{"handle", sent.Handle})
	}
	return table(c.OutOrStdout(), rows)
}

var (
	// printable is what a header can carry and the server takes for a key.
	printable = regexp.MustCompile(`^[!-~]([ -~]{0,254}[!-~])?$`)
	hash      = regexp.MustCompile(`^[0-9A-Fa-f]{32}$`)
)

// checkKey refuses an empty key too: a script whose variable is unset would
// otherwise send without one.
func checkKey(c *cobra.Command, s api.Send) error {
	key, hashed := c.Flags().Changed("dedup-key"), c.Flags().Changed("dedup-hash")
	switch {
	case key && hashed:
		return usagef("give --dedup-key or --dedup-hash, not both")
	case key && !printable.MatchString(s.DedupKey):
		return usagef("--dedup-key must be 1 to 256 printable ASCII characters without a space at either end")
	case hashed && !hash.MatchString(s.DedupHash):
		return usagef("--dedup-hash must be 32 hex digits")
	default:
		return nil
	}
}

func readPayload(stdin io.Reader, args []string, file string) ([]byte, error) {
	switch {
	case len(args) > 0 && file != "":
		return nil, usagef("give the payload as an argument or with --file, not both")
	case len(args) > 0:
		return []byte(args[0]), nil
	case file != "" && file != "-":
		payload, err := os.ReadFile(file)
		if err != nil {
			return nil, Failure{fmt.Errorf("the payload could not be read, so nothing was sent: %w", err)}
		}
		return payload, nil
	case file == "" && isTerminal(stdin):
		return nil, usagef("no payload: give it as an argument, with --file, or on standard input")
	}
	payload, err := io.ReadAll(stdin)
	if err != nil {
		return nil, Failure{fmt.Errorf("the payload could not be read, so nothing was sent: %w", err)}
	}
	return payload, nil
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
