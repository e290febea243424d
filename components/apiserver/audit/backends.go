package audit

import (
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	auditwebhook "k8s.io/apiserver/plugin/pkg/audit/webhook"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/egress"
)

// version is the only one of the events' API; validate has checked that no other is asked for.
var version schema.GroupVersion = auditv1.SchemeGroupVersion

// open makes the backend that writes the log, and what closes it.
func (l *Log) open() (audit.Backend, func() error, error) {
	var out io.Writer = os.Stdout
	closeLog := func() error { return nil }
	if l.Path != "-" {
		file, err := openFile(fileConfig{
			Path: l.Path, MaxSize: int64(l.MaxSize) << 20, MaxAge: l.MaxAge, MaxBackups: l.MaxBackups,
			Compress: l.Compress,
			Clock:    clock.RealClock{},
		})
		if err != nil {
			return nil, nil, err
		}
		out, closeLog = file, file.Close
	}
	return l.cut(l.deliver(auditlog.NewBackend(out, l.Format, version))), closeLog, nil
}

// open makes the backend that posts to the webhook.
func (w *Webhook) open(dial egress.Dial) (audit.Backend, error) {
	backoff := webhook.DefaultRetryBackoffWithInitialDelay(w.InitialBackoff)
	backend, err := auditwebhook.NewBackend(w.ConfigFile, version, backoff, dial)
	if err != nil {
		return nil, err
	}
	return w.cut(w.deliver(backend)), nil
}

// deliver wraps a backend as the mode wants it.
func (d *Delivery) deliver(to audit.Backend) audit.Backend {
	switch d.Mode {
	case ModeBlockingStrict:
		return to
	case ModeBlocking:
		return forgiving{to}
	}
	return buffered.NewBackend(to, d.Batch)
}

// cut wraps a backend so that it gets no event that is too large.
func (d *Delivery) cut(to audit.Backend) audit.Backend {
	if !d.Truncate {
		return to
	}
	return truncate.NewBackend(to, d.Limits, version)
}

// forgiving lets requests go on whose events could not be written; the backend has told the log.
type forgiving struct{ audit.Backend }

func (f forgiving) ProcessEvents(events ...*auditapi.Event) bool {
	f.Backend.ProcessEvents(events...)
	return true
}
