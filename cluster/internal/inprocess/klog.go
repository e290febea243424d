package inprocess

import (
	"bytes"
	"flag"
	"io"
	"os"
	"sync"

	"k8s.io/klog/v2"
)

// quietKlog has klog's own output on stderr leave out what API servers report there by the mere fact that they run. The
// library for priority and fairness logs through klog's global functions, never through the logger of a context, so that
// this can't go to the member's log, and can't be left out but for the whole process: this is why a package that others
// import changes global state here. It does so through those functions of klog that take its lock, since others may be
// logging. It changes nothing for processes whose klog writes to files, and none of what a logger gets that a process
// sets by klog.SetLogger, before or after.
var quietKlog = sync.OnceFunc(func() {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	if flags.Lookup("logtostderr").Value.String() != "true" {
		return
	}
	// A line is written to the outputs of its severity and of all that are lower. Errors are written to stderr, too.
	for _, severity := range []string{"WARNING", "ERROR", "FATAL"} {
		klog.SetOutputBySeverity(severity, io.Discard)
	}
	klog.SetOutputBySeverity("INFO", quiet{os.Stderr})
	klog.LogToStderr(false)
})

// quiet passes klog's lines on, but for those of flow control that tell nothing but that it runs, and those of errors.
type quiet struct{ to io.Writer }

// Write takes one line.
func (q quiet) Write(line []byte) (int, error) {
	header, _, _ := bytes.Cut(line, []byte("] "))
	info := bytes.HasPrefix(line, []byte("I"))
	if info && bytes.Contains(header, []byte(" apf_controller.go:")) || len(line) > 0 && bytes.IndexByte([]byte("EF"),
		line[0]) >= 0 {
		return len(line), nil
	}
	return q.to.Write(line)
}
