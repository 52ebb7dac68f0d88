// SPDX-License-Identifier: Apache-2.0
// Copyright The regcred Authors

package remote

import (
	"fmt"
	"net/http"
)

// RejectProtocolSwitch returns an error instead of a response with status 101. No request asks for
// another protocol. net/http hands over the connection as the body of such a response, and reads
// from it ignore the request's context. Call it on the results of every RoundTrip whose body is
// read.
func RejectProtocolSwitch(resp *http.Response, err error) (*http.Response, error) {
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	resp.Body.Close()
	host := ""
	if resp.Request != nil {
		host = resp.Request.URL.Host
	}
	return nil, permanentError{fmt.Errorf("%q switched to another protocol (HTTP 101), which was not requested", host)}
}
