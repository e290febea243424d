package handlers

import (
	"io"
	"net/http"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/handlers/negotiate"
	"quintet.dev/quintet/components/apiserver/serial"
)

// list answers with the objects that the options choose.
func (c *call) list() error {
	o, predicate, err := c.listOptions()
	if err != nil {
		return err
	}
	if c.kind.Read != nil {
		return c.readAll(predicate)
	}
	told := c.unready
	if isFromStore(o.Limit, predicate) {
		told = func(err error) error { return err }
	} else if err := c.convertible(); err != nil {
		return told(err)
	}
	c.steps.Reach("About to List from storage")
	l, err := c.cache.List(c.ctx, cache.ListOptions{
		Namespace: c.namespace, ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		Limit: o.Limit, Continue: o.Continue, Predicate: predicate,
	})
	if err != nil {
		return told(err)
	}
	c.steps.Reach("Listing from storage done")
	return told(c.listed(l))
}

// listed answers with a list.
func (c *call) listed(l *cache.List) error {
	c.found()
	f := c.format(c.choice.Media, cache.Whole)
	out := serial.List{Kind: c.version.WithKind(c.kind.ListKind()), Item: f.Kind, Meta: l.Meta(), Free: c.kind.Custom != nil, KeepKinds: c.kind.Custom != nil}
	switch c.choice.Shape {
	case negotiate.Table:
		return c.table(http.StatusOK, l, "")
	case negotiate.Metadata:
		return c.isAList()
	case negotiate.MetadataList:
		f = c.metadata()
		out.Kind, out.Item = f.Kind.GroupVersion().WithKind(c.choice.Shape), f.Kind
		out.KeepKinds, out.Free, out.NullIfEmpty = true, false, true
	}
	c.formed()
	c.auditList(l, out, f)
	out.Items = l.Bodies(f)
	return c.serialized(func() error {
		switch {
		case c.choice.Pretty && c.choice.Media == serial.JSON:
			return c.send(http.StatusOK, indented(func(w io.Writer) error { return serial.WriteList(w, c.choice.Media, out) }))
		case (c.choice.Media == serial.JSON || c.choice.Media == serial.Protobuf) && c.zips() && l.CanZip():
			return c.sendZipped(func(w io.Writer) error { return l.WriteZipped(w, f, out) })
		}
		return c.send(http.StatusOK, func(w io.Writer) error { return serial.WriteList(w, c.choice.Media, out) })
	})
}
