// Program testimage is everything a test's container has to do, as one small static program without a shell.
package main

import (
	"fmt"
	"os"

	"quintet.dev/quintet/cmd/testimage/verbs"
)

func main() {
	code, err := verbs.Run(os.Args[1:], verbs.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, "testimage:", err)
	}
	os.Exit(code)
}
