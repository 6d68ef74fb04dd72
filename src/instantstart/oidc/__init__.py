"""The speaker of OpenID Connect: people sign in at their own provider, and come back with a signed word about who they are."""
