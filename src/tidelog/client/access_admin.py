"""Administration of users, access rules and quotas."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.client.client import Client
from tidelog.client.errors import check
from tidelog.core.security.acls import Acl, AclFilter
from tidelog.core.security.quota_keys import Entity
from tidelog.core.security.scram import ScramMechanism, salted_password
from tidelog.wire.protocol.schemas import (
    alter_client_quotas_request,
    alter_user_scram_credentials_request,
    create_acls_request,
    delete_acls_request,
)
from tidelog.wire.protocol.schemas.alter_client_quotas_response import AlterClientQuotasResponse
from tidelog.wire.protocol.schemas.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
)
from tidelog.wire.protocol.schemas.create_acls_response import CreateAclsResponse
from tidelog.wire.protocol.schemas.delete_acls_response import DeleteAclsResponse
from tidelog.wire.protocol.schemas.describe_acls_request import DescribeAclsRequest
from tidelog.wire.protocol.schemas.describe_acls_response import DescribeAclsResponse
from tidelog.wire.protocol.schemas.describe_client_quotas_request import (
    DescribeClientQuotasRequest,
)
from tidelog.wire.protocol.schemas.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
)
from tidelog.wire.protocol.schemas.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
)
from tidelog.wire.protocol.schemas.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
)


class UserPassword(NamedTuple):
    """That there is one; nobody is told which."""

    user: str
    mechanism: str
    iterations: int


class SetQuota(NamedTuple):
    entity: Entity
    key: str
    value: float


class NewPassword(NamedTuple):
    user: str
    mechanism: ScramMechanism
    password: str
    salt: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"NewPassword({self.user!r})"


class AccessAdmin:
    """What an administrator asks about who may do what, through one client."""

    __slots__ = ("client",)

    def __init__(self, client: Client) -> None:
        self.client = client

    # -- access rules

    async def acls(self, wanted: AclFilter) -> list[Acl]:
        kind, name, pattern, principal, host, operation, permission = wanted
        request = DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=principal,
            host_filter=host,
            operation=operation,
            permission_type=permission,
        )
        answer = await self.client.ask_any(request, DescribeAclsResponse)
        check(answer.error_code, answer.error_message)
        return [
            Acl(
                each.resource_type,
                each.resource_name,
                each.pattern_type,
                rule.principal,
                rule.host,
                rule.operation,
                rule.permission_type,
            )
            for each in answer.resources
            for rule in each.acls
        ]

    async def add_acls(self, acls: Sequence[Acl]) -> None:
        request = create_acls_request.CreateAclsRequest(
            creations=[
                create_acls_request.AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
            ]
        )

        def verdict(answer: CreateAclsResponse) -> None:
            for result in answer.results:
                check(result.error_code, result.error_message)

        await self.client.ask_controller(request, CreateAclsResponse, verdict)

    async def remove_acls(self, wanted: AclFilter) -> int:
        """How many there were."""
        kind, name, pattern, principal, host, operation, permission = wanted
        request = delete_acls_request.DeleteAclsRequest(
            filters=[
                delete_acls_request.DeleteAclsFilter(
                    resource_type_filter=kind,
                    resource_name_filter=name,
                    pattern_type_filter=pattern,
                    principal_filter=principal,
                    host_filter=host,
                    operation=operation,
                    permission_type=permission,
                )
            ]
        )

        def verdict(answer: DeleteAclsResponse) -> None:
            check(answer.filter_results[0].error_code, answer.filter_results[0].error_message)

        answer = await self.client.ask_controller(request, DeleteAclsResponse, verdict)
        return len(answer.filter_results[0].matching_acls)

    # -- users

    async def users(self) -> list[UserPassword]:
        request = DescribeUserScramCredentialsRequest(users=None)
        answer = await self.client.ask_any(request, DescribeUserScramCredentialsResponse)
        check(answer.error_code, answer.error_message)
        return [
            UserPassword(each.user, ScramMechanism(info.mechanism).sasl_name, info.iterations)
            for each in answer.results
            for info in each.credential_infos
        ]

    async def set_password(self, new: NewPassword) -> None:
        """The password is salted here: the cluster never hears it."""
        salted = salted_password(new.mechanism, new.password, new.salt, new.iterations)
        upsertion = alter_user_scram_credentials_request.ScramCredentialUpsertion(
            name=new.user,
            mechanism=new.mechanism,
            iterations=new.iterations,
            salt=new.salt,
            salted_password=salted,
        )
        await self._alter_users(
            alter_user_scram_credentials_request.AlterUserScramCredentialsRequest(
                upsertions=[upsertion]
            )
        )

    async def remove_password(self, user: str, mechanism: ScramMechanism) -> None:
        deletion = alter_user_scram_credentials_request.ScramCredentialDeletion(
            name=user, mechanism=mechanism
        )
        await self._alter_users(
            alter_user_scram_credentials_request.AlterUserScramCredentialsRequest(
                deletions=[deletion]
            )
        )

    async def _alter_users(
        self, request: alter_user_scram_credentials_request.AlterUserScramCredentialsRequest
    ) -> None:
        def verdict(answer: AlterUserScramCredentialsResponse) -> None:
            check(answer.results[0].error_code, answer.results[0].error_message)

        await self.client.ask_controller(request, AlterUserScramCredentialsResponse, verdict)

    # -- quotas

    async def quotas(self) -> list[SetQuota]:
        answer = await self.client.ask_any(
            DescribeClientQuotasRequest(), DescribeClientQuotasResponse
        )
        check(answer.error_code, answer.error_message)
        return [
            SetQuota(
                tuple((part.entity_type, part.entity_name) for part in each.entity),
                quota.key,
                quota.value,
            )
            for each in answer.entries or ()
            for quota in each.values
        ]

    async def set_quotas(self, entity: Entity, changes: Mapping[str, float | None]) -> None:
        """None removes one."""
        request = alter_client_quotas_request.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas_request.EntryData(
                    entity=[
                        alter_client_quotas_request.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity
                    ],
                    ops=[
                        alter_client_quotas_request.OpData(
                            key=key, value=value or 0.0, remove=value is None
                        )
                        for key, value in changes.items()
                    ],
                )
            ]
        )

        def verdict(answer: AlterClientQuotasResponse) -> None:
            check(answer.entries[0].error_code, answer.entries[0].error_message)

        await self.client.ask_controller(request, AlterClientQuotasResponse, verdict)


__all__ = ["AccessAdmin", "NewPassword", "SetQuota", "UserPassword"]
