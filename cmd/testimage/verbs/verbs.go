// Package verbs holds what the test image can do. A command line is one verb with its arguments, or several joined by
// the word "then": each runs when the one before succeeded, and the exit code is that of the last one that ran.
package verbs

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Streams are a verb's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// verb is one thing the image can do. run returns the exit code; an error alone means 1.
type verb struct {
	usage string
	run   func(args []string, s Streams) (int, error)
}

func table() map[string]verb {
	return map[string]verb{
		"serve": {"serve [--http=:8080[,ADDR...]] [--tcp=ADDR] [--udp=ADDR] [--grpc=ADDR] [--ready-after=DUR] " +
			"[--fail-after=DUR] " +
			"[--text=T]: serve until SIGTERM", serve},
		"exit":  {"exit CODE", exit},
		"fail":  {"fail N FILE: exit 1 the first N times, counted in FILE, then 0", fail},
		"print": {"print N [--interval=DUR] [--text=T] [--stderr]: print N numbered lines", printLines},
		"echo":  {"echo WORDS...", echo},
		"sleep": {"sleep DURATION|forever: SIGTERM ends it with code 0", sleep},
		"trap": {"trap [--delay=DUR] [--exit=CODE] [--ignore] [--file=FILE]: wait for SIGTERM, say so, take DUR, exit",
			trap},
		"spin":    {"spin DURATION: use one CPU", spin},
		"allot":   {"allot MIB: hold MIB of memory until SIGTERM", allot},
		"message": {"message TEXT [--file=/dev/termination-log]: write a termination message", message},
		"write":   {"write FILE TEXT", write},
		"fill":    {"fill FILE MIB: write zeros", fill},
		"append":  {"append FILE TEXT", appendTo},
		"remove":  {"remove FILE...", remove},
		"cat":     {"cat FILE...: without FILE, copy stdin", cat},
		"head":    {"head BYTES FILE: its first bytes", head},
		"sizes":   {"sizes FILE...: how many bytes a file or device has", sizes},
		"mount":   {"mount DIR: a file system in memory; DIR is made", mountMemory},
		"unmount": {"unmount DIR...", unmount},
		"threads": {"threads N: have N threads at once", threads},
		"terminal": {"terminal WIDTHxHEIGHT: wait until the output is a terminal of that size, for five seconds",
			terminal},
		"resources": {"resources SOCKET: the devices of the node's containers, as a kubelet tells them", resources},
		"ls":        {"ls DIR...: one name per line, sorted, directories end with /", list},
		"stat":      {"stat FILE...: name type mode uid gid size", stat},
		"wait":      {"wait FILE: return when FILE exists", waitFile},
		"env":       {"env [NAME...]: all variables sorted, or the values of some", env},
		"whoami":    {"whoami: uid, gid, groups, working directory, hostname, pid", whoami},
		"get": {"get URL [--timeout=DUR] [--ca=FILE] [--token=FILE]: print the body; code 1 unless the status is below 400",
			get},
		"drain":   {"drain URL: read the body, print how long that took", drain},
		"connect": {"connect HOST:PORT [--timeout=DUR]", connect},
		"datagram": {"datagram HOST:PORT [--from=ADDR] [--text=T] [--timeout=DUR]: send over UDP, print the answer",
			datagram},
		"resolve": {"resolve NAME: the addresses, sorted", resolve},
		"lookup": {"lookup NAME TYPE [--server=HOST:PORT] [--tcp] [--timeout=DUR]: the response code and the records, sorted",
			lookup},
	}
}

// Run runs a command line.
func Run(args []string, s Streams) (code int, err error) {
	verbs := table()
	for {
		rest, more := []string(nil), false
		if i := slices.Index(args, "then"); i >= 0 {
			args, rest, more = args[:i], args[i+1:], true
		}
		if len(args) == 0 || args[0] == "help" || args[0] == "--help" {
			return 0, help(verbs, s.Out)
		}
		v, ok := verbs[args[0]]
		if !ok {
			return 2, fmt.Errorf("no verb %q; `testimage help` lists them", args[0])
		}
		code, err = v.run(args[1:], s)
		if err != nil {
			return max(code, 1), fmt.Errorf("%s: %w", args[0], err)
		}
		if code != 0 || !more {
			return code, nil
		}
		args = rest
	}
}

func help(verbs map[string]verb, out io.Writer) error {
	for _, name := range slices.Sorted(maps.Keys(verbs)) {
		if _, err := fmt.Fprintln(out, verbs[name].usage); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, "Join verbs with the word `then`: testimage print 3 then exit 2")
	return err
}

// options splits --name=value (or --name) from plain arguments; a name that is not among known is an error.
func options(args []string, known ...string) (plain []string, opts map[string]string, err error) {
	opts = map[string]string{}
	for _, arg := range args {
		name, isOption := strings.CutPrefix(arg, "--")
		if !isOption {
			plain = append(plain, arg)
			continue
		}
		name, value, _ := strings.Cut(name, "=")
		if !slices.Contains(known, name) {
			return nil, nil, fmt.Errorf("unknown option --%s", name)
		}
		opts[name] = value
	}
	return plain, opts, nil
}

func duration(opts map[string]string, name string, fallback time.Duration) (time.Duration, error) {
	text, ok := opts[name]
	if !ok {
		return fallback, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("--%s: %w", name, err)
	}
	return d, nil
}

func number(args []string, i int, what string) (int, error) {
	if i >= len(args) {
		return 0, fmt.Errorf("%s is missing", what)
	}
	n, err := strconv.Atoi(args[i])
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return n, nil
}
