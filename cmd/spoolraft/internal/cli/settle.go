package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/api"
)

const settleUnknown = "Do it again: the answer stale_token then means that it was settled, or that the lease has ended."

// settleCommands are those that take a lease.
func settleCommands() []*cobra.Command {
	return []*cobra.Command{
		settleCommand("ack", "Acknowledge a delivery: the message is done", ""),
		settleCommand("nack", "Give a delivery back as failed: a retry is counted", `Give a delivery back as failed. A retry is counted; a message without any retry
left is parked as failed.`),
		releaseCommand(),
		settleCommand("fail", "Park a message as failed", `Park a message as failed. It stays until it is recovered, discarded or expired.`),
		discardCommand(),
		renewCommand(),
	}
}

func settleCommand(verb, short, long string) *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:     verb + " LEASE",
		Short:   short,
		Long:    long,
		GroupID: groupMessages,
		Example: `  spoolraft ` + verb + ` "$LEASE"`,
		Args:    cobra.ExactArgs(1),
	}
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		return advise(client.Settle(c.Context(), verb, args[0], 0), settleUnknown)
	})
}

func releaseCommand() *cobra.Command {
	var (
		r     remote
		delay seconds
	)
	c := &cobra.Command{
		Use:     "release LEASE",
		Short:   "Give a delivery back without counting a retry",
		GroupID: groupMessages,
		Example: `  spoolraft release "$LEASE" --delay 1m`,
		Args:    cobra.ExactArgs(1),
	}
	c.Flags().Var(&delay, "delay", "keep the message invisible for so long")
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		return advise(client.Settle(c.Context(), "release", args[0], time.Duration(delay)), settleUnknown)
	})
}

func discardCommand() *cobra.Command {
	var (
		r      remote
		handle string
	)
	c := &cobra.Command{
		Use:     "discard LEASE | --handle HANDLE",
		Short:   "Throw a message away; with its handle, cancel it",
		GroupID: groupMessages,
		Example: `  spoolraft discard "$LEASE"
  spoolraft discard --handle "$HANDLE"`,
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().StringVar(&handle, "handle", "", "the message with this handle")
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		if (len(args) == 1) == (handle != "") {
			return usagef("give a lease or a --handle, one of them")
		}
		if handle != "" {
			return advise(client.Discard(c.Context(), handle), settleUnknown)
		}
		return advise(client.Settle(c.Context(), "discard", args[0], 0), settleUnknown)
	})
}

func renewCommand() *cobra.Command {
	var r remote
	c := &cobra.Command{
		Use:     "renew LEASE",
		Short:   "Extend a lease",
		Long:    `Extend a lease by the queue's lease timeout from now. The lease keeps its name.`,
		GroupID: groupMessages,
		Example: `  spoolraft renew "$LEASE"`,
		Args:    cobra.ExactArgs(1),
	}
	return r.command(c, func(c *cobra.Command, client *api.Client, args []string) error {
		expiresAt, err := client.Renew(c.Context(), args[0])
		if err != nil {
			return advise(err, "The lease may be extended. Renew it again.")
		}
		if r.json {
			return printJSON(c.OutOrStdout(), struct {
				LeaseExpiresAt string `json:"leaseExpiresAt,omitempty"`
			}{expiresAt})
		}
		return table(c.OutOrStdout(), [][]string{{"Lease ends", orNever(expiresAt)}})
	})
}
