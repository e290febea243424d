package handlers

import (
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/serial"
)

// list answers with the objects that the options choose.
func (c *call) list() error {
	choice, err := c.accept(listOffer)
	if err != nil {
		return err
	}
	o, predicate, err := c.listOptions()
	if err != nil {
		return err
	}
	l, err := c.cache.List(c.ctx, cache.ListOptions{
		Namespace: c.namespace, ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		Limit: o.Limit, Continue: o.Continue, Predicate: predicate,
	})
	if err != nil {
		return err
	}
	if choice.Shape == "Table" {
		return c.table(http.StatusOK, choice, l, "")
	}
	f := c.format(choice.Media, cache.Whole)
	out := serial.List{Kind: c.version.WithKind(c.kind.ListKind()), Item: f.Kind, Meta: l.Meta()}
	if choice.Shape == "PartialObjectMetadataList" {
		f = c.format(choice.Media, cache.Metadata)
		out.Kind, out.Item = metav1.SchemeGroupVersion.WithKind(choice.Shape), f.Kind
		out.KeepKinds = true
	}
	out.Items = l.Bodies(f)
	if choice.Pretty && choice.Media == serial.JSON {
		return c.send(http.StatusOK, choice.Media, indented(func(w io.Writer) error {
			return serial.WriteList(w, choice.Media, out)
		}))
	}
	if choice.Media != serial.YAML && acceptsGzip(c.r) && l.CanZip() {
		return c.sendZipped(choice.Media, func(w io.Writer) error { return l.WriteZipped(w, f, out) })
	}
	return c.send(http.StatusOK, choice.Media, func(w io.Writer) error {
		return serial.WriteList(w, choice.Media, out)
	})
}
