package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"quintet.dev/quintet/components/apiserver/tokens"
	"quintet.dev/quintet/components/apiserver/tokens/external"
	"quintet.dev/quintet/internal/follow"
)

// longestExtension is how long tokens live at most that outlive what was asked for.
const longestExtension = 365 * 24 * time.Hour

// makeRemoteTokens has tokens signed by another process, which also says how long they may live.
func (s *Server) makeRemoteTokens(config tokens.Config) error {
	ctx := context.Background()
	fail := func(err error) error {
		return fmt.Errorf("while setting up external-jwt-signer (--service-account-signing-endpoint): %w", err)
	}
	var err error
	if s.signer, err = external.Dial(ctx, s.config.ServiceAccountSigningEndpoint, s.config.Clock, s.registry.Register); err != nil {
		return fail(err)
	}
	longest, err := s.signer.LongestLife(ctx)
	if err != nil {
		return fail(err)
	}
	if config.MaxExpiration > longest {
		return fmt.Errorf("service-account-max-token-expiration cannot be set longer than the token expiration supported by service-account-signing-endpoint: %s > %s",
			config.MaxExpiration, longest)
	}
	config.MaxExpiration = cmp.Or(config.MaxExpiration, longest)
	config.ExtendedLife = min(longest, longestExtension)
	config.Remote = s.signer
	if s.tokens, err = tokens.New(config); err != nil {
		return err
	}
	if s.keyFiles, err = follow.New(func(context.Context, [][]byte) error { return nil }); err != nil {
		return err
	}
	s.signer.Follow(s.tokens.SetRemoteKeys)
	return nil
}
