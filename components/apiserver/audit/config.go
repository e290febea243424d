package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
)

// Modes of delivery.
const (
	ModeBatch          = "batch"           // events are queued, and sent together
	ModeBlocking       = "blocking"        // a request waits until its events are written
	ModeBlockingStrict = "blocking-strict" // and fails if its arrival can't be
)

var modes = []string{ModeBatch, ModeBlocking, ModeBlockingStrict}

// Config says what is written down, and where. The zero value writes nothing; others start from Defaults.
type Config struct {
	PolicyFile string // an audit.k8s.io/v1 Policy; without one nothing is written
	Log        Log
	Webhook    Webhook
}

// Log is a file of events, one a line.
type Log struct {
	Path       string // "-" is standard output, "" no log
	Format     string // "json" or "legacy"
	Version    string // of the events' API
	MaxSize    int    // MiB after which a new file is begun; 0 never does
	MaxAge     int    // days for which old files are kept; 0 means forever
	MaxBackups int    // old files that are kept; 0 means all
	Compress   bool   // old files
	Delivery
}

// Webhook is a service that events are posted to.
type Webhook struct {
	ConfigFile     string        // a kubeconfig; "" is no webhook
	Version        string        // of the events' API
	InitialBackoff time.Duration // before the first attempt after a failed one
	Delivery
}

// Delivery is how events get to where they are written.
type Delivery struct {
	Mode     string
	Batch    buffered.BatchConfig // for ModeBatch
	Truncate bool
	Limits   truncate.Config // for Truncate
}

// Defaults is upstream's configuration: it writes nothing, as it names no file.
func Defaults() Config {
	limits := truncate.Config{MaxBatchSize: 10 << 20, MaxEventSize: 100 << 10}
	version := auditv1.SchemeGroupVersion.String()
	const queued = 10_000
	return Config{
		Log: Log{
			Format: auditlog.FormatJson, Version: version, MaxSize: 100, MaxAge: 366, MaxBackups: 100,
			Delivery: Delivery{Mode: ModeBlocking, Limits: limits,
				Batch: buffered.BatchConfig{BufferSize: queued, MaxBatchSize: 1}},
		},
		Webhook: Webhook{
			InitialBackoff: 10 * time.Second, Version: version,
			Delivery: Delivery{Mode: ModeBatch, Limits: limits, Batch: buffered.BatchConfig{
				BufferSize: queued, MaxBatchSize: 400, MaxBatchWait: 30 * time.Second,
				ThrottleEnable: true, ThrottleQPS: 10, ThrottleBurst: 15, AsyncDelegate: true,
			}},
		},
	}
}

// AddFlags sets c to the Defaults, and binds it to flags with upstream's names.
func (c *Config) AddFlags(fs *pflag.FlagSet) {
	*c = Defaults()
	fs.StringVar(&c.PolicyFile, "audit-policy-file", "",
		"Policy that says which requests are audited, and how much of them; without it, none is.")
	l := &c.Log
	fs.StringVar(&l.Path, "audit-log-path", "", "File that audit events are written to; - is standard output.")
	fs.StringVar(&l.Format, "audit-log-format", l.Format,
		"Form of audit events in the file: json, or legacy for lines of text.")
	fs.StringVar(&l.Version, "audit-log-version", l.Version, "API version of audit events in the file.")
	fs.IntVar(&l.MaxSize, "audit-log-maxsize", l.MaxSize, "Megabytes after which a new file is begun; 0 never does.")
	fs.IntVar(&l.MaxAge, "audit-log-maxage", l.MaxAge, "Days for which old files are kept; 0 means forever.")
	fs.IntVar(&l.MaxBackups, "audit-log-maxbackup", l.MaxBackups, "How many old files are kept; 0 means all.")
	fs.BoolVar(&l.Compress, "audit-log-compress", false, "Compress old files.")
	l.addFlags(fs, "log")
	w := &c.Webhook
	fs.StringVar(&w.ConfigFile, "audit-webhook-config-file", "",
		"Kubeconfig of the service that audit events are posted to.")
	fs.StringVar(&w.Version, "audit-webhook-version", w.Version, "API version of audit events that are posted.")
	fs.DurationVar(&w.InitialBackoff, "audit-webhook-initial-backoff", w.InitialBackoff,
		"Pause before the first attempt after a failed one.")
	fs.DurationVar(&w.InitialBackoff, "audit-webhook-batch-initial-backoff", w.InitialBackoff,
		"Old name of --audit-webhook-initial-backoff.")
	_ = fs.MarkDeprecated("audit-webhook-batch-initial-backoff", "use --audit-webhook-initial-backoff instead")
	w.addFlags(fs, "webhook")
}

func (d *Delivery) addFlags(fs *pflag.FlagSet, backend string) {
	name := func(rest string) string { return "audit-" + backend + "-" + rest }
	fs.StringVar(&d.Mode, name("mode"), d.Mode, "How audit events are delivered: "+strings.Join(modes, ", ")+".")
	fs.IntVar(&d.Batch.BufferSize, name("batch-buffer-size"), d.Batch.BufferSize,
		"How many events may wait, in batch mode; more are dropped.")
	fs.IntVar(&d.Batch.MaxBatchSize, name("batch-max-size"), d.Batch.MaxBatchSize,
		"How many events are sent together, in batch mode.")
	fs.DurationVar(&d.Batch.MaxBatchWait, name("batch-max-wait"), d.Batch.MaxBatchWait,
		"How long events wait for others to be sent with, in batch mode.")
	fs.BoolVar(&d.Batch.ThrottleEnable, name("batch-throttle-enable"), d.Batch.ThrottleEnable,
		"Bound the rate of batches, in batch mode.")
	fs.Float32Var(&d.Batch.ThrottleQPS, name("batch-throttle-qps"), d.Batch.ThrottleQPS,
		"Batches per second on average, in batch mode.")
	fs.IntVar(&d.Batch.ThrottleBurst, name("batch-throttle-burst"), d.Batch.ThrottleBurst,
		"Batches at once after a pause, in batch mode.")
	fs.BoolVar(&d.Truncate, name("truncate-enabled"), d.Truncate, "Cut events and batches that are too large.")
	fs.Int64Var(&d.Limits.MaxBatchSize, name("truncate-max-batch-size"), d.Limits.MaxBatchSize,
		"Bytes of a batch; larger ones are split.")
	fs.Int64Var(&d.Limits.MaxEventSize, name("truncate-max-event-size"), d.Limits.MaxEventSize,
		"Bytes of an event; a larger one loses its objects, or is dropped.")
}

// validate names what can't be, of the parts that are used.
func (c *Config) validate() error {
	if l := &c.Log; l.Path != "" {
		if !slices.Contains(auditlog.AllowedFormats, l.Format) {
			return fmt.Errorf("--audit-log-format %q is not known: use one of %s", l.Format,
				strings.Join(auditlog.AllowedFormats, ", "))
		}
		for flag, n := range map[string]int{"maxage": l.MaxAge, "maxbackup": l.MaxBackups, "maxsize": l.MaxSize} {
			if n < 0 {
				return fmt.Errorf("--audit-log-%s %d can't be a negative number", flag, n)
			}
		}
		if err := l.validate("log", l.Version); err != nil {
			return err
		}
	}
	if w := &c.Webhook; w.ConfigFile != "" {
		return w.validate("webhook", w.Version)
	}
	return nil
}

func (d *Delivery) validate(backend, version string) error {
	wrong := func(flag string, value any, must string) error {
		return fmt.Errorf("--audit-%s-%s is %v: it must be %s", backend, flag, value, must)
	}
	switch b := &d.Batch; {
	case version != auditv1.SchemeGroupVersion.String():
		return wrong("version", version, auditv1.SchemeGroupVersion.String())
	case !slices.Contains(modes, d.Mode):
		return wrong("mode", d.Mode, "one of "+strings.Join(modes, ", "))
	case d.Mode != ModeBatch:
	case b.BufferSize <= 0:
		return wrong("batch-buffer-size", b.BufferSize, "positive")
	case b.MaxBatchSize <= 0:
		return wrong("batch-max-size", b.MaxBatchSize, "positive")
	case b.ThrottleEnable && b.ThrottleQPS <= 0:
		return wrong("batch-throttle-qps", b.ThrottleQPS, "positive")
	case b.ThrottleEnable && b.ThrottleBurst <= 0:
		return wrong("batch-throttle-burst", b.ThrottleBurst, "positive")
	}
	switch l := &d.Limits; {
	case l.MaxEventSize <= 0:
		return wrong("truncate-max-event-size", l.MaxEventSize, "positive")
	case l.MaxBatchSize < l.MaxEventSize:
		return wrong("truncate-max-batch-size", l.MaxBatchSize, fmt.Sprintf("at least the event's, %d", l.MaxEventSize))
	}
	return nil
}
