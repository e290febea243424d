package connect

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// log streams a container's log from its kubelet.
func (c *Connector) log(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	o, err := logOptions(r.URL.Query())
	if err != nil {
		return err
	}
	pod, err := c.pod(r, namespace, name)
	if err != nil {
		return err
	}
	container, err := chooseContainer(pod, o.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		// Nothing has run, so there is nothing to read; that is no error.
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusOK)
		return nil
	}
	host, err := c.kubeletOf(r, pod)
	if err != nil {
		return err
	}
	at := url.URL{Scheme: "https", Host: host, RawQuery: logQuery(o).Encode(),
		Path: fmt.Sprintf("/containerLogs/%s/%s/%s", pod.Namespace, pod.Name, container)}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	response, err := c.kubelet.RoundTrip(request)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusPartialContent {
		return kubeletError(response, pod.Name)
	}
	stream(w, response.Body, o.Follow)
	return nil
}

// kubeletError passes on why a kubelet refused. As upstream has it, only what is the client's fault or the kubelet's own
// failure comes with the kubelet's words.
func kubeletError(response *http.Response, pod string) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, 50000))
	switch response.StatusCode {
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(errors.New(string(text)))
	case http.StatusBadRequest:
		return apierrors.NewBadRequest(string(text))
	}
	return apierrors.NewGenericServerResponse(response.StatusCode, "", schema.GroupResource{Resource: "pods/log"}, pod, string(text), 0, false)
}

// stream copies, and when followed sends on at once what has come.
func stream(w http.ResponseWriter, from io.Reader, follow bool) {
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	if !follow {
		_, _ = io.Copy(w, from)
		return
	}
	flusher := http.NewResponseController(w)
	_ = flusher.Flush()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil || flusher.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// logOptions reads and checks the parameters of a log request.
func logOptions(query url.Values) (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{
		Container:  query.Get("container"),
		Follow:     isTrue(query, "follow"),
		Previous:   isTrue(query, "previous"),
		Timestamps: isTrue(query, "timestamps"),
	}
	var errs field.ErrorList
	number := func(name string, least int64) *int64 {
		text := query.Get(name)
		if text == "" {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(field.NewPath(name), text, err.Error()))
			return nil
		case n < least && least == 0:
			errs = append(errs, field.Invalid(field.NewPath(name), n, "must be greater than or equal to 0"))
		case n < least:
			errs = append(errs, field.Invalid(field.NewPath(name), n, "must be greater than 0"))
		}
		return &n
	}
	o.TailLines, o.LimitBytes, o.SinceSeconds = number("tailLines", 0), number("limitBytes", 1), number("sinceSeconds", 1)
	if text := query.Get("sinceTime"); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath("sinceTime"), text, err.Error()))
		}
		o.SinceTime = &metav1.Time{Time: t}
	}
	if o.SinceSeconds != nil && o.SinceTime != nil {
		errs = append(errs, field.Forbidden(field.NewPath(""), "at most one of `sinceTime` or `sinceSeconds` may be specified"))
	}
	switch name := query.Get("stream"); name {
	case "", corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr:
		if name != "" {
			o.Stream = &name
		}
		if name != "" && name != corev1.LogStreamAll && o.TailLines != nil {
			errs = append(errs, field.Forbidden(field.NewPath(""), "`tailLines` and specific `stream` are mutually exclusive for now"))
		}
	default:
		errs = append(errs, field.NotSupported(field.NewPath("stream"), name, []string{corev1.LogStreamAll, corev1.LogStreamStdout, corev1.LogStreamStderr}))
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, "", errs)
	}
	return o, nil
}

func isTrue(query url.Values, name string) bool {
	values, given := query[name]
	if !given || len(values) == 0 {
		return false
	}
	v, err := strconv.ParseBool(values[0])
	return values[0] == "" || err == nil && v
}

// logQuery is what the kubelet is asked.
func logQuery(o *corev1.PodLogOptions) url.Values {
	q := url.Values{}
	flag := func(name string, on bool) {
		if on {
			q.Set(name, "true")
		}
	}
	flag("follow", o.Follow)
	flag("previous", o.Previous)
	flag("timestamps", o.Timestamps)
	number := func(name string, n *int64) {
		if n != nil {
			q.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	number("tailLines", o.TailLines)
	number("limitBytes", o.LimitBytes)
	number("sinceSeconds", o.SinceSeconds)
	if o.SinceTime != nil {
		q.Set("sinceTime", o.SinceTime.UTC().Format(time.RFC3339))
	}
	if o.Stream != nil {
		q.Set("stream", *o.Stream)
	}
	return q
}
