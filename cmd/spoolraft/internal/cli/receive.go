package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

const maxWait = 60 * time.Second

type recvFlags struct {
	remote
	wait  seconds
	count int
	ack   bool
	raw   bool
}

func recvCommand() *cobra.Command {
	r := recvFlags{wait: seconds(20 * time.Second)}
	c := &cobra.Command{
		Use:     "recv QUEUE",
		Short:   "Receive messages",
		GroupID: groupMessages,
		Long: `Receive messages: lease the oldest visible one and print it. Settle it with its
lease before that ends, or the queue delivers it again. With --ack a message is
acknowledged as soon as it is printed.

Ends with code 3 where nothing came.

` + exitCodesHelp,
		Example: `  spoolraft recv jobs
  spoolraft recv jobs --ack --raw --wait 5 > payload
  lease=$(spoolraft recv jobs --json | jq -r .lease) && spoolraft ack "$lease"`,
		Args: cobra.ExactArgs(1),
	}
	f := c.Flags()
	f.Var(&r.wait, "wait", "how long to wait for a message, up to 60s")
	f.IntVar(&r.count, "count", 1, "how many to receive; ends early when none comes within the wait")
	f.BoolVar(&r.ack, "ack", false, "acknowledge each message once it is printed")
	f.BoolVar(&r.raw, "raw", false, "print the payload alone, byte for byte; needs --ack")
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		switch {
		case time.Duration(r.wait) > maxWait:
			return usagef("--wait must be at most 60s")
		case r.count < 1:
			return usagef("--count must be at least 1")
		case r.raw && (r.json || !r.ack):
			return usagef("--raw prints no lease, so it needs --ack and goes without --json")
		}
		return r.receive(c, client, args[0])
	})
}

func (r *recvFlags) receive(c *cobra.Command, client *api.Client, queue string) error {
	for n := range r.count {
		d, err := client.Receive(c.Context(), queue, time.Duration(r.wait))
		switch {
		case err != nil:
			return advise(err, "A message may be leased to nobody until its lease ends; it is delivered again then.")
		case d == nil && n == 0:
			return errNothing
		case d == nil:
			return nil
		}
		// Printed before it is acknowledged: what cannot be printed comes again.
		if err := r.print(c.OutOrStdout(), d, n); err != nil {
			return err
		}
		if !r.ack {
			continue
		}
		if err := client.Settle(c.Context(), "ack", d.Lease, 0); err != nil {
			return advise(err, "The message may be delivered again when its lease ends.")
		}
	}
	return nil
}

func (r *recvFlags) print(w io.Writer, d *api.Delivery, n int) error {
	switch {
	case r.raw:
		_, err := w.Write(d.Payload)
		return outputError(err)
	case r.json:
		return printDeliveryJSON(w, d)
	}
	if n > 0 {
		fmt.Fprintln(w)
	}
	rows := [][]string{{"Message", d.ID}, {"Retries", strconv.Itoa(d.Retries)}}
	if !r.ack {
		rows = append(rows, []string{"Lease", d.Lease}, []string{"Lease ends", orNever(d.LeaseExpiresAt)})
	}
	return printDelivery(w, rows, d.Payload)
}

// printDelivery prints what is known of a message, and its payload below.
func printDelivery(w io.Writer, rows [][]string, payload []byte) error {
	if err := table(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", payload)
	return outputError(err)
}

func printDeliveryJSON(w io.Writer, d *api.Delivery) error {
	v := struct {
		ID             string  `json:"id"`
		State          string  `json:"state,omitempty"`
		Retries        int     `json:"retries"`
		Lease          string  `json:"lease,omitempty"`
		LeaseExpiresAt string  `json:"leaseExpiresAt,omitempty"`
		Payload        *string `json:"payload,omitempty"`       // where it is text
		PayloadBase64  []byte  `json:"payloadBase64,omitempty"` // where it is not
	}{ID: d.ID, State: d.State, Retries: d.Retries, Lease: d.Lease, LeaseExpiresAt: d.LeaseExpiresAt}
	if utf8.Valid(d.Payload) {
		text := string(d.Payload)
		v.Payload = &text
	} else {
		v.PayloadBase64 = d.Payload
	}
	return printJSON(w, v)
}

func orNever(t string) string {
	if t == "" {
		return "never"
	}
	return t
}

// advise adds to an error of unknown outcome what it means here.
func advise(err error, text string) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Outcome != api.Unknown {
		return err
	}
	advised := *e
	advised.Kind = ""
	advised.Message = e.Error() + " " + text
	return &advised
}
