package main

import (
	"context"
	"os"

	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/cli"
	"github.com/spoolraft/spoolraft/cmd/spoolraft/internal/server"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, server.Commands()...))
}
